// What a JavaScript operator does: an informer that is told of everything, also after its watch was cut.
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = 'default';
const told = [];
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () =>
  core.listNamespacedConfigMap({ namespace }));
for (const event of ['add', 'update', 'delete']) {
  informer.on(event, (one) => told.push(`${event} ${one.metadata.name} ${one.data?.value ?? ''}`.trim()));
}
const failed = (error) => { console.error(error); process.exit(1); };
informer.on('error', (error) => { if (error?.type !== 'aborted') failed(error); }); // `stop` aborts its watch

const until = async (what) => {
  for (let tries = 0; tries < 600; tries += 1) {
    if (told.includes(what)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  failed(new Error(`never told: ${what}; only ${told}`));
};
const body = (value) => ({ metadata: { name: 'stranger' }, data: { value } });

await informer.start();
await core.createNamespacedConfigMap({ namespace, body: body('one') });
await until('add stranger one');
await core.replaceNamespacedConfigMap({ name: 'stranger', namespace, body: body('two') });
await until('update stranger two');
await informer.stop();
await core.replaceNamespacedConfigMap({ name: 'stranger', namespace, body: body('three') });
await informer.start();
await until('update stranger three');
await core.deleteNamespacedConfigMap({ name: 'stranger', namespace });
await until('delete stranger three');
console.log(told.join('\n'));
process.exit(0);
